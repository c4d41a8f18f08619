-- Name jobs that ended long ago; they stay until `forget`, so that no object outlives its record.
-- KEYS none. ARGV: 1 how long a job is kept after its end (ms), 2 jobs to look at
-- Returns for each: id, tenant, fences handed out, request, images.
local old = {}
local ids = redis.call('ZRANGEBYSCORE', 'finished', '-inf', now - ARGV[1], 'LIMIT', 0, ARGV[2])
for _, id in ipairs(ids) do
  local r = redis.call('HMGET', 'job:' .. id, 'tenant', 'fences', 'request', 'images')
  if r[1] then
    old[#old + 1] = {id, r[1], r[2] or '', r[3], r[4] or ''}
  else
    redis.call('ZREM', 'finished', id)
  end
end
return old
