package load

// The published tables.
const (
	inCoupons = "coupons"
	inQueue   = "queue"
	inOrders  = "orders"
	inCrowds  = "crowds"
)

// published are the tables of those who measured before us, with their figures.
func published() []comparison {
	return []comparison{
		{
			ID: inCoupons, Title: "First-come coupons, 10,000 requests at once",
			Note:    "Theirs: Spring Boot, Tomcat, MySQL, 2 vCPU and 4 GB each; what they tried, one after the other.",
			Columns: []string{"way", "succeeded", "avg, ms", "p95, ms"},
			Rows: []row{
				coupons("pessimistic lock, pool of 10", "83.95 %", 27800, 49000),
				coupons("pool of 100 to 200", "82.97 %", 28800, 54200),
				coupons("database takes 250 connections", "83.01 %", 26300, 47300),
				coupons("conditional update and unique insert", "86.26 %", 16600, 26900),
				coupons("accept up to 10,000 connections", "100 %", 15900, 23700),
				coupons("Redis Lua, write-behind in memory", "100 %", 0, 4700),
				coupons("… one core more", "100 %", 0, 3930),
				coupons("… two servers behind nginx", "100 %", 0, 4040),
				coupons("… a core more for the balancer", "100 %", 0, 3310),
				coupons("… a core more for everything", "100 %", 0, 2080),
			},
		},
		{
			ID: inQueue, Title: "A waiting room in front of slow orders",
			Note:    "Theirs: Spring, Redis sorted set, MySQL, 1,000 users; orders took 1,298 ms where 200 had been assumed. Bars: position p95.",
			Columns: []string{"what", "failed", "enter avg, ms", "enter p95, ms", "position avg, ms", "position p95, ms", "orders/s, of what was possible"},
			Rows: []row{{
				Cells: []string{"blackfriday beside slow orders", "0", "4,607", "8,798", "3,681", "8,829", "10.7 of 175 assumed: 6 %"}, Bar: 8829,
			}},
		},
		{
			ID: inOrders, Title: "Order and payment in a closed loop",
			Note:    "Theirs: Spring Boot, Java 21, MySQL; two requests in three seconds are the ceiling of a user, whatever the machine.",
			Columns: []string{"users", "requests/s", "of the ceiling", "order p95, ms"},
			Rows: []row{
				{Cells: []string{"700", "220", "47 %", "–"}, Bar: 47},
				{Cells: []string{"1,000", "203", "30 %", "–"}, Bar: 30},
				{Cells: []string{"1,000, without N+1 queries", "215", "32 %", "–"}, Bar: 32},
			},
		},
		{
			ID: inCrowds, Title: "Ten thousand a second, and a million in line",
			Note:    "Theirs: the task that was set, 10,000 a second for 30 s; nobody published a run of it.",
			Columns: []string{"what", "entered", "per second", "failed", "enter p95, ms", "position p95, ms"},
			Rows:    []row{{Cells: []string{"the task", "300,000", "10,000", "–", "–", "–"}}},
		},
	}
}

func coupons(way, succeeded string, avg, p95 float64) row {
	mean := "–"
	if avg > 0 {
		mean = millis(avg)
	}
	return row{Cells: []string{way, succeeded, mean, millis(p95)}, Bar: p95}
}
