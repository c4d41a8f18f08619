-- Take back an attempt of a running job that came further than any before: it moves, so it is not what
-- kills its workers. A job that stands still is charged as ever.
-- KEYS none. ARGV: 1 id, 2 fence, 3 worker, 4 how far it had come before this claim
-- Returns 1; 0: it had come as far before, or the caller's claim does not own it any more.
local key = 'job:' .. ARGV[1]
local r = redis.call('HMGET', key, 'status', 'fence', 'worker', 'attempts', 'furthest')
if r[1] ~= 'running' or r[2] ~= ARGV[2] or r[3] ~= ARGV[3] then
  return 0
end
if tonumber(ARGV[4]) <= tonumber(r[5] or '0') then
  return 0
end
redis.call('HSET', key, 'furthest', ARGV[4])
if tonumber(r[4]) > 1 then
  redis.call('HINCRBY', key, 'attempts', -1)
end
return 1
