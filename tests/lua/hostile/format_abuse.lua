-- expect: error
-- attack: a format with a huge width
return string.format("%9999999d", 1)
