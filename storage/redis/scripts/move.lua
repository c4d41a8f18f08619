-- Give a queued job another place: new queue, new message, a turn among its tenant's others there.
-- KEYS none. ARGV: 1 id, 2 request, 3 placement, 4 queue, 5 message, 6 level
-- Returns 1; 0: it is not queued any more.
local id, key = ARGV[1], 'job:' .. ARGV[1]
if redis.call('HGET', key, 'status') ~= 'queued' then
  return 0
end
withdraw(id)
redis.call('HSET', key, 'request', ARGV[2], 'placement', ARGV[3], 'queue', ARGV[4],
  'message', ARGV[5], 'level', ARGV[6])
requeue(id, 'rescued', tonumber(redis.call('HGET', key, 'work') or nil))
return 1
