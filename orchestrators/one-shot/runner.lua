-- One session, nothing else: its numbers are those of a run without orchestration.
local result = session(task.prompt)
return { note = result.reason }
