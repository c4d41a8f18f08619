-- Count the jobs that would be served before a new one of a tenant.
-- KEYS none. ARGV: 1 queue, 2 priority, 3 tenant
local before = 0
for _, priority in ipairs(PRIORITIES) do
  local list = list_of(ARGV[1], priority)
  if priority == ARGV[2] then
    return before + redis.call('ZCOUNT', 'turns:' .. list, '-inf', exact(start_of(list, ARGV[3])))
  end
  before = before + redis.call('ZCARD', 'turns:' .. list)
end
return before
