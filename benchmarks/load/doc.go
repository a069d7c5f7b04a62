// Package load runs every load scenario, each against a service, a Redis and a schema
// of its own, and writes one report that has published figures beside ours:
//
//	make load                    # all, at full size: a quarter of an hour on an idle machine
//	make load SCALE=0.02         # to see that it works
//	make load ONLY=spike,arrivals
//
// A step that failed is in the report as failed, and makes the run fail at its end.
// It is a test for the sake of the servers that tests have (servicetest); without
// -report nothing but the report itself is tested. What it watches is read from /proc,
// so the run is for Linux.
package load
