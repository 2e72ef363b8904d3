return { math.random(1000000), math.random(1000000) }
