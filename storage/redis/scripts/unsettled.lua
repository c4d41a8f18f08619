-- Tell which webhook deliveries nobody has settled since they were handed out.
-- KEYS none. ARGV: 1 name of one, 2 its attempts before that, and so on for each
-- Returns their names.
local left = {}
for i = 1, #ARGV, 2 do
  if redis.call('HGET', 'delivery:' .. ARGV[i], 'attempt') == ARGV[i + 1] then
    left[#left + 1] = ARGV[i]
  end
end
return left
