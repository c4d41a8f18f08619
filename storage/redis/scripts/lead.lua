-- Take, renew or give up the lead in one matter; fences grow even if the counter was lost.
-- KEYS none. ARGV: 1 matter, 2 owner, nobody else's name, 3 time to live (ms), 4 fence held (0: none),
--   5 keep or drop
-- Returns the fence held from now on; 0: somebody else leads, or the lead was given up. Whoever has
-- taken the lead and heard no answer is answered alike.
local key = 'leader:' .. ARGV[1]
local holder = redis.call('GET', key)
local owner, held = string.match(holder or '', '^(.*)\n(%d+)$')
local mine = owner == ARGV[2] and (ARGV[4] == held or ARGV[4] == '0')
if ARGV[5] == 'drop' then
  if mine then
    redis.call('DEL', key)
  end
  return 0
end
if mine then
  redis.call('PEXPIRE', key, ARGV[3])
  return tonumber(held)
end
if holder or ARGV[4] ~= '0' then
  return 0
end
local last = tonumber(redis.call('GET', key .. ':fence') or '0')
local fence = string.format('%.0f', math.max(last + 1, now))
redis.call('SET', key .. ':fence', fence)
redis.call('SET', key, ARGV[2] .. '\n' .. fence, 'PX', ARGV[3])
return tonumber(fence)
