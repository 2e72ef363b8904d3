-- expect: error no UTF-8
-- attack: a prompt that is no UTF-8
session("\xff\xfe")
