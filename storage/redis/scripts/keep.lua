-- Keep an upload: its record and its place in its tenant's index.
-- KEYS none. ARGV: 1 id, 2 tenant, 3 kind, 4 document, 5 uploads of this kind a tenant may keep,
--   6 its bytes, 7 bytes that the tenant may keep, 8 when it was kept, if another cell did; else none
-- Returns when it was kept; 0: the tenant keeps as many as it may, -1: as many bytes.
local at = tonumber(ARGV[8] or now)
local key, index = 'upload:' .. ARGV[1], 'uploads:' .. ARGV[3] .. ':' .. ARGV[2]
local kept = redis.call('HGET', key, 'created_at')
if kept then
  return tonumber(kept)
end
if redis.call('ZCARD', index) >= tonumber(ARGV[5]) then
  return 0
end
local held = redis.call('HMGET', 'account:' .. ARGV[2], 'bytes', 'promised')
if tonumber(held[1] or '0') + tonumber(held[2] or '0') + tonumber(ARGV[6]) > tonumber(ARGV[7]) then
  return -1
end
book(ARGV[2], 'bytes', tonumber(ARGV[6]))
redis.call('HSET', key, 'tenant', ARGV[2], 'kind', ARGV[3], 'document', ARGV[4], 'created_at', at,
  'bytes', ARGV[6])
redis.call('ZADD', index, at, ARGV[1])
return at
