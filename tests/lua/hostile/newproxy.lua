-- expect: error `newproxy` does not exist
-- attack: no userdata of the script's own
return newproxy(true)
