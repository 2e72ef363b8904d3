-- expect: error `setfenv` does not exist
-- attack: nor replaced
return setfenv(print, {})
