-- expect: error too many elements
-- attack: table.move with bounds that compare as false
return table.move({}, 0 / 0, 0 / 0, 1)
