-- expect: memory
-- attack: one huge buffer
return buffer.len(buffer.create(1000000000))
