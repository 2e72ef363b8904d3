-- expect: error `os.execute` does not exist
-- attack: no commands on the host
os.execute("true")
