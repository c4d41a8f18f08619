-- Stop a job for good, wherever it is; one that has ended stays as it is.
-- KEYS none. ARGV: 1 id, 2 tenant (empty: any)
-- Returns the record as HGETALL does; empty: no such job of this tenant.
local id, key = ARGV[1], 'job:' .. ARGV[1]
local r = redis.call('HMGET', key, 'status', 'tenant')
if not r[1] or (ARGV[2] ~= '' and r[2] ~= ARGV[2]) then
  return {}
end
if r[1] == 'running' then
  stop(id)
end
if r[1] == 'queued' or r[1] == 'running' then
  close(id, 'canceled')
end
return redis.call('HGETALL', key)
