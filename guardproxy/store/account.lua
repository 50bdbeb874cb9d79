-- account: the ledger of usage. Between state.lua and the script that uses it.
--
-- usage:<day>   hash, of a day of UTC by its number since 1970: whose it is (core/usage.py `payer`) -> the sums, as
--               numbers in the order of its FIELDS. Kept so long that a year can be told; exported before that
local ROWS, KEPT_DAYS = 5000, 400
local FIELDS = 14
local SUMS = '<' .. string.rep('d', FIELDS)

-- Names come from clients: of rows that are too many, team and key are kept.
local function account(now, who, numbers)
  local day = P .. 'usage:' .. string.format('%.0f', math.floor(now / 86400000))
  local row = call('HGET', day, who)
  if not row and call('HLEN', day) >= ROWS then
    who = (string.match(who, '^[^\31]*\31[^\31]*\31') or '\31\31') .. '*\31*\31*'
    row = call('HGET', day, who)
  end
  local sums = row and { take(SUMS, row) } or {}
  for i = 1, FIELDS do sums[i] = (sums[i] or 0) + (numbers[i] or 0) end
  call('HSET', day, who, put(SUMS, unpack(sums, 1, FIELDS)))
  if not row then call('PEXPIRE', day, KEPT_DAYS * 24 * HOUR) end
end
