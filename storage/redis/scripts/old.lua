-- Name jobs that ended long ago; they stay until `forget`, so that no object outlives its record.
-- KEYS none. ARGV: 1 how long a job is kept after its end (ms), 2 jobs to look at, 3 tenant (empty:
--   all), 4 of its jobs, the oldest first, those to pass over
-- Returns how many were looked at, and for each old one: id, tenant, fences handed out, request, images.
local old = {}
local before, tenant = now - ARGV[1], ARGV[3]
local index = tenant == '' and 'finished' or 'tenant:' .. tenant
local ids = redis.call('ZRANGEBYSCORE', index, '-inf', before, 'LIMIT', ARGV[4], ARGV[2])
for _, id in ipairs(ids) do
  local r = redis.call('HMGET', 'job:' .. id, 'tenant', 'fences', 'request', 'images', 'finished_at')
  if not r[1] then
    redis.call('ZREM', index, id)
  elseif r[5] and tonumber(r[5]) <= before then
    old[#old + 1] = {id, r[1], r[2] or '', r[3], r[4] or ''}
  end
end
return {#ids, old}
