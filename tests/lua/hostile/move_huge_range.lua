-- expect: error too many elements
-- attack: table.move over two thousand million elements
return table.move({}, 1, 2 ^ 31 - 2, 2)
