-- Forget an upload; call it once its object is deleted.
-- KEYS none. ARGV: 1 id, 2 tenant, 3 kind
-- Returns 1; 0: this tenant keeps no such upload.
local key = 'upload:' .. ARGV[1]
local r = redis.call('HMGET', key, 'tenant', 'kind', 'bytes')
if r[1] ~= ARGV[2] or r[2] ~= ARGV[3] then
  return 0
end
book(ARGV[2], 'bytes', -tonumber(r[3] or '0'))
redis.call('ZREM', 'uploads:' .. ARGV[3] .. ':' .. ARGV[2], ARGV[1])
redis.call('DEL', key)
return 1
