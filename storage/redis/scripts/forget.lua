-- Forget jobs that have ended; call it once their objects are deleted. Where there is an archive a
-- mark of each stays for a while: who has just read it there must not bring it back. Of those that
-- a worker had claimed the scheduler hears: what they left for others to start from went with them.
-- KEYS none. ARGV: 1 and on: ids
-- Returns how many were forgotten.
local KEEP_GONE_S = 60  -- the archive is waited for 10 s, Redis half a minute with all retries
local MAX_DELETED = 10000  -- ids that wait for a scheduler: without one the oldest go
local forgotten, deleted = 0, 0
for _, id in ipairs(ARGV) do
  local r = redis.call('HMGET', 'job:' .. id, 'tenant', 'bytes', 'deleting', 'fences')
  local tenant = r[1]
  if tenant and redis.call('ZREM', 'finished', id) == 1 then
    book(tenant, 'bytes', -tonumber(r[2] or '0'))
    redis.call('ZREM', 'tenant:' .. tenant, id)
    redis.call('ZREM', 'buried:' .. tenant, id)
    redis.call('DEL', 'job:' .. id, 'events:' .. id, 'preview:' .. id)
    if r[3] then  -- `recall` says so, and is asked only where there is an archive
      redis.call('SET', 'gone:' .. id, 1, 'EX', KEEP_GONE_S)
    end
    if r[4] and r[4] ~= '' then
      redis.call('LPUSH', 'latents:deleted', id)
      deleted = deleted + 1
    end
    forgotten = forgotten + 1
  end
end
if deleted > 0 then
  redis.call('LTRIM', 'latents:deleted', 0, MAX_DELETED - 1)
end
return forgotten
