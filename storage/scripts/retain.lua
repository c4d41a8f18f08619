-- Forget jobs that ended long ago.
-- KEYS none. ARGV: 1 how long a job is kept after its end (ms), 2 jobs to look at
-- Returns for each job forgotten: id, tenant, fence, request, images.
local gone = {}
local ids = redis.call('ZRANGEBYSCORE', 'finished', '-inf', now - ARGV[1], 'LIMIT', 0, ARGV[2])
for _, id in ipairs(ids) do
  local r = redis.call('HMGET', 'job:' .. id, 'tenant', 'fence', 'request', 'images')
  if r[1] then
    redis.call('ZREM', 'tenant:' .. r[1], id)
    gone[#gone + 1] = {id, r[1], r[2], r[3], r[4] or ''}
  end
  redis.call('ZREM', 'finished', id)
  redis.call('DEL', 'job:' .. id, 'events:' .. id)
end
return gone
