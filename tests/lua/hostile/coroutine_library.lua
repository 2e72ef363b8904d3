-- expect: error `coroutine` does not exist
-- attack: no coroutines
return coroutine.wrap(function() session("x") end)
