-- Hand out webhook deliveries; one not settled in time is handed out again.
-- KEYS none. ARGV: 1 epoch (ms; 0: now), 2 how many, 3 time to settle one (ms)
-- Returns for each: name, job, url, event, attempt, body, tenant (false: an older version posted it),
-- epoch at which it is handed out again (ms).
local at = tonumber(ARGV[1])
if at == 0 then
  at = now
end
local due = {}
for _, name in ipairs(redis.call('ZRANGEBYSCORE', 'outbox', '-inf', at, 'LIMIT', 0, ARGV[2])) do
  local r = redis.call('HMGET', 'delivery:' .. name, 'job', 'url', 'event', 'body', 'attempt', 'tenant')
  if r[1] then
    local again = string.format('%.0f', at + ARGV[3])
    redis.call('ZADD', 'outbox', again, name)
    due[#due + 1] = {name, r[1], r[2], r[3], r[5] + 1, r[4], r[6], again}
  else
    redis.call('ZREM', 'outbox', name)
  end
end
return due
