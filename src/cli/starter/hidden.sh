#!/bin/sh
# Hidden tests: the agent never sees this file.
echo "1..2"
status=0
if [ "$(sh greet.sh Ada)" = "hello Ada" ]; then echo "ok 1 - greets by name"; else echo "not ok 1 - greets by name"; status=1; fi
if [ "$(sh greet.sh)" = "hello world" ]; then echo "ok 2 - greets the world"; else echo "not ok 2 - greets the world"; status=1; fi
exit $status
