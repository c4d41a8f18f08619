-- Announce a lender whose latents are stored, unless its job was deleted meanwhile.
-- KEYS none. ARGV: 1 id of the job, 2 the lender (JSON), 3 how many may wait: then the oldest go
-- Returns 1 if it was announced.
local id, lender, waiting = ARGV[1], ARGV[2], tonumber(ARGV[3])
if redis.call('EXISTS', 'job:' .. id) == 0 then
  return 0
end
redis.call('LPUSH', 'latents:made', lender)
redis.call('LTRIM', 'latents:made', 0, waiting - 1)
return 1
