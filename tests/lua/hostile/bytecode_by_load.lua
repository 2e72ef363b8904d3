-- expect: error `loadstring` does not exist
-- attack: bytecode cannot be loaded
return loadstring("\27Lua")
