-- expect: error `collectgarbage` does not exist
-- attack: the collector is out of reach
return collectgarbage("stop")
