package redisqueue

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Timeouts of one command. A context's deadline cuts it shorter.
const (
	dialTimeout = 2 * time.Second
	ioTimeout   = 2 * time.Second
	poolSize    = 64 // connections for scripts; polls share a pipeline of their own

	// dials is how often one attempt of a command dials: whoever waits is to know soon
	// that nobody is there, and a command has further attempts. go-redis's five make 2 s
	// of a refusal.
	dials = 1
	// clusterReload is how old the view of who serves what in a cluster gets. A node that
	// hangs sends nobody elsewhere: by go-redis's 60 s its place would be found a minute
	// after another took it.
	clusterReload = time.Second
)

// Dial makes a client from a URL; it does not connect yet. Forms:
//
//	redis://user:pass@host:port/db and rediss:// (TLS)
//	redis-cluster://user:pass@a:7000,b:7000,c:7000
//	redis-sentinel://user:pass@a:26379,b:26379?master=name&db=0
//
// A missing port is 6379, or 26379 of a sentinel.
//
// Errors never contain the password.
func Dial(raw string) (redis.UniversalClient, error) {
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok {
		return nil, errors.New("redisqueue: the URL has no scheme")
	}
	switch scheme {
	case "redis", "rediss":
		o, err := redis.ParseURL(raw)
		if err != nil {
			return nil, fmt.Errorf("redisqueue: the %s URL is malformed", scheme)
		}
		if _, err := addresses(o.Addr, ""); err != nil {
			return nil, err
		}
		// Without this a context's deadline does not cut a command in flight.
		o.ContextTimeoutEnabled = true
		o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolSize, o.DialerRetries = dialTimeout, ioTimeout, ioTimeout, poolSize, dials
		return redis.NewClient(o), nil
	case "redis-cluster", "redis-sentinel":
		return dialMany(scheme, rest)
	default:
		return nil, fmt.Errorf("redisqueue: unknown scheme %q", scheme)
	}
}

func dialMany(scheme, rest string) (redis.UniversalClient, error) {
	rest, query, _ := strings.Cut(rest, "?")
	params, err := url.ParseQuery(query)
	if err != nil {
		return nil, fmt.Errorf("redisqueue: the %s URL's parameters are malformed", scheme)
	}
	for name := range params {
		if scheme != "redis-sentinel" || name != "master" && name != "db" {
			return nil, fmt.Errorf("redisqueue: a %s URL takes no such parameter", scheme)
		}
	}
	var user, pass string
	if at := strings.LastIndex(rest, "@"); at >= 0 {
		info, err := url.Parse("redis://" + rest[:at] + "@host")
		if err != nil {
			return nil, fmt.Errorf("redisqueue: the %s URL's user is malformed", scheme)
		}
		user = info.User.Username()
		pass, _ = info.User.Password()
		rest = rest[at+1:]
	}
	port := map[string]string{"redis-cluster": "6379", "redis-sentinel": "26379"}[scheme]
	addrs, err := addresses(strings.TrimSuffix(rest, "/"), port)
	if err != nil {
		return nil, err
	}
	if scheme == "redis-cluster" {
		return redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: addrs, Username: user, Password: pass, ContextTimeoutEnabled: true,
			DialTimeout: dialTimeout, ReadTimeout: ioTimeout, WriteTimeout: ioTimeout, PoolSize: poolSize, DialerRetries: dials,
			ClusterStateReloadInterval: clusterReload,
		}), nil
	}
	master := params.Get("master")
	if master == "" {
		return nil, errors.New("redisqueue: a redis-sentinel URL needs ?master=name")
	}
	db, err := strconv.Atoi(cmp.Or(params.Get("db"), "0"))
	if err != nil || db < 0 {
		return nil, errors.New("redisqueue: db must be a number")
	}
	return redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: master, SentinelAddrs: addrs, DB: db, Username: user, Password: pass, ContextTimeoutEnabled: true,
		DialTimeout: dialTimeout, ReadTimeout: ioTimeout, WriteTimeout: ioTimeout, PoolSize: poolSize, DialerRetries: dials,
	}), nil
}

// addresses splits a list of hosts and gives those without a port the default.
func addresses(list, port string) ([]string, error) {
	addrs := strings.Split(list, ",")
	for i, a := range addrs {
		if !strings.Contains(a, ":") {
			a = net.JoinHostPort(a, port)
		}
		host, p, err := net.SplitHostPort(a)
		if _, bad := strconv.ParseUint(p, 10, 16); err != nil || host == "" || bad != nil {
			return nil, fmt.Errorf("redisqueue: host %d of the URL is not a host or host:port", i+1)
		}
		addrs[i] = a
	}
	return addrs, nil
}
