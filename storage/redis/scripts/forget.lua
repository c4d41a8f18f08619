-- Forget jobs that have ended; call it once their objects are deleted.
-- KEYS none. ARGV: 1 and on: ids
-- Returns how many were forgotten.
local forgotten = 0
for _, id in ipairs(ARGV) do
  local r = redis.call('HMGET', 'job:' .. id, 'tenant', 'bytes')
  local tenant = r[1]
  if tenant and redis.call('ZREM', 'finished', id) == 1 then
    book(tenant, 'bytes', -tonumber(r[2] or '0'))
    redis.call('ZREM', 'tenant:' .. tenant, id)
    redis.call('ZREM', 'buried:' .. tenant, id)
    redis.call('DEL', 'job:' .. id, 'events:' .. id, 'preview:' .. id)
    forgotten = forgotten + 1
  end
end
return forgotten
