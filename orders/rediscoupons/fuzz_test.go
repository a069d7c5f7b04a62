package rediscoupons

import (
	"encoding/json"
	"reflect"
	"testing"
)

// FuzzReply: a reply of the script is read whole, or refused and nothing is kept of it.
func FuzzReply(f *testing.F) {
	f.Add(`["issued",3,"CODE","1-1"]`)
	f.Add(`["sold_out",3,"",""]`)
	f.Add(`["issued","3","CODE","1-1"]`)
	f.Add(`["issued",3,"CODE"]`)
	f.Add(`[[],null,{},1]`)
	f.Add(`null`)
	f.Fuzz(func(t *testing.T, text string) {
		var reply any
		if json.Unmarshal([]byte(text), &reply) != nil {
			t.Skip()
		}
		reply = asRedis(reply)
		var got issued
		if err := got.read(reply); err != nil {
			if got != (issued{}) {
				t.Fatalf("%v is refused, and %+v kept of it", reply, got)
			}
			return
		}
		if want := []any{got.state, got.known, got.code, got.entry}; !reflect.DeepEqual(want, reply) {
			t.Fatalf("%v is read as %+v", reply, got)
		}
	})
}

// asRedis makes what JSON has what a client of Redis would give.
func asRedis(v any) any {
	switch v := v.(type) {
	case float64:
		return int64(v)
	case []any:
		for i := range v {
			v[i] = asRedis(v[i])
		}
	}
	return v
}
