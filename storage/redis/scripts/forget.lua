-- Forget jobs that have ended; call it once their objects are deleted. Where there is an archive a
-- mark of each stays for a while: who has just read it there must not bring it back.
-- KEYS none. ARGV: 1 and on: ids
-- Returns how many were forgotten.
local KEEP_GONE_S = 60  -- the archive is waited for 10 s, Redis half a minute with all retries
local forgotten = 0
for _, id in ipairs(ARGV) do
  local r = redis.call('HMGET', 'job:' .. id, 'tenant', 'bytes', 'deleting')
  local tenant = r[1]
  if tenant and redis.call('ZREM', 'finished', id) == 1 then
    book(tenant, 'bytes', -tonumber(r[2] or '0'))
    redis.call('ZREM', 'tenant:' .. tenant, id)
    redis.call('ZREM', 'buried:' .. tenant, id)
    redis.call('DEL', 'job:' .. id, 'events:' .. id, 'preview:' .. id)
    if r[3] then  -- `recall` says so, and is asked only where there is an archive
      redis.call('SET', 'gone:' .. id, 1, 'EX', KEEP_GONE_S)
    end
    forgotten = forgotten + 1
  end
end
return forgotten
