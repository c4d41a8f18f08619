-- End a running job, if the caller's claim still owns it.
-- KEYS none. ARGV: 1 id, 2 fence, 3 worker, 4 status, 5 images, 6 failure (or empty), 7 timing,
--   8 placement (or empty), 9 its level: where the job got another level than it was placed at,
--   10 bytes of the images, 11 time of its device (ms)
-- Returns 1, also to a repeated call of the same claim; 0: fenced off, nothing was written.
local id, key, fence = ARGV[1], 'job:' .. ARGV[1], ARGV[2]
local r = redis.call('HMGET', key, 'status', 'fence', 'worker', 'finished_by')
if r[4] == fence and r[3] == ARGV[3] and r[1] == ARGV[4] then
  return 1
end
if r[1] ~= 'running' or r[2] ~= fence or r[3] ~= ARGV[3] then
  count('fenced')
  return 0
end
if ARGV[6] ~= '' then
  redis.call('HSET', key, 'failure', ARGV[6])
end
if ARGV[8] ~= '' then
  redis.call('HSET', key, 'placement', ARGV[8], 'level', ARGV[9])
end
if tonumber(ARGV[11]) > 0 then  -- else what it said last counts
  redis.call('HSET', key, 'gpu_ms', ARGV[11])
end
close(id, ARGV[4], tonumber(ARGV[10]), 'images', ARGV[5], 'timing', ARGV[7], 'finished_by', fence)
return 1
