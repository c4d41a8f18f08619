-- Forget jobs that have ended; call it once their objects are deleted.
-- KEYS none. ARGV: 1 and on: ids
-- Returns how many were forgotten.
local forgotten = 0
for _, id in ipairs(ARGV) do
  local tenant = redis.call('HGET', 'job:' .. id, 'tenant')
  if tenant and redis.call('ZREM', 'finished', id) == 1 then
    redis.call('ZREM', 'tenant:' .. tenant, id)
    redis.call('ZREM', 'buried:' .. tenant, id)
    redis.call('DEL', 'job:' .. id, 'events:' .. id, 'preview:' .. id)
    forgotten = forgotten + 1
  end
end
return forgotten
