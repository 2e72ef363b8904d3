-- expect: error `getfenv` does not exist
-- attack: nor can the environment of a host function be reached
return getfenv(session)
