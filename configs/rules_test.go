package configs

import "testing"

// What no browser sends as an Origin would be listed and never match.
func TestOrigins(t *testing.T) {
	for s, good := range map[string]bool{
		"https://www.example.com": true, "http://localhost:3000": true, "https://xn--mller-kva.example": true,
		"http://[::1]:8080": true, "https://my_shop.example": true, "http://192.0.2.7:443": true,
		"https://*.example.com": false, "*": false, "null": false, "https://example.com:443": false, "http://example.com:80": false,
		"https://müller.example": false, "https://Example.com": false, "https://example.com/": false, "https://a@example.com": false,
		"https://": false, "https://:8080": false, "https://example.com:": false, "ftp://example.com": false, "https://example.com?": false,
		"https://a.example b.example": false, "https://a.example,https://b.example": false,
	} {
		if err := origin(s); (err == nil) != good {
			t.Errorf("%q: %v", s, err)
		}
	}
}

// A proxy of IPv4 is known by its address however that is written: connections from it
// have it in its own form.
func TestNetworksOfIPv4(t *testing.T) {
	for s, want := range map[string]string{
		"192.0.2.7": "192.0.2.7/32", "::ffff:192.0.2.7": "192.0.2.7/32", "::ffff:10.1.2.3/104": "10.0.0.0/8",
		"::ffff:0:0/96": "0.0.0.0/0", "::/0": "::/0", "fd00::/8": "fd00::/8", "10.1.2.3/8": "10.0.0.0/8",
	} {
		if got, err := ParseNetwork(s); err != nil || got.String() != want {
			t.Errorf("%s is %v, %v, and not %s", s, got, err, want)
		}
	}
}
