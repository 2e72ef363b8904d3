-- expect: error recursion limit
-- attack: JSON text nested ten thousand deep
return require("@std/json").decode(string.rep("[", 10000))
