-- expect: error too many results
-- attack: more results than a stack holds
return unpack({}, 1, 1e7)
