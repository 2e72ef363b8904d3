-- expect: error `debug` does not exist
-- attack: no debug library
return debug.getinfo(1)
