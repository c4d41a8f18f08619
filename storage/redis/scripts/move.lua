-- Give a queued job another place: new queue, new message, same turn.
-- KEYS none. ARGV: 1 id, 2 request, 3 placement, 4 queue, 5 message, 6 level
-- Returns 1; 0: it is not queued any more.
local id, key = ARGV[1], 'job:' .. ARGV[1]
local r = redis.call('HMGET', key, 'status', 'queue', 'priority', 'message', 'publication')
if r[1] ~= 'queued' then
  return 0
end
withdraw(id, r[2], r[3], r[4], r[5])
redis.call('HSET', key, 'request', ARGV[2], 'placement', ARGV[3], 'queue', ARGV[4],
  'message', ARGV[5], 'level', ARGV[6])
redis.call('SADD', 'queues', ARGV[4])
requeue(id, 'rescued')
return 1
