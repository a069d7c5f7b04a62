package main

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"sluice/queue"
)

// One visitor who enters fifty times at once, from both instances, has one place, and is
// told once that it is new.
func TestOneVisitorEntersTwoInstancesAtOnce(t *testing.T) {
	t.Parallel()
	environ := append(sharedStores(t), "SLUICE_IDENTITY_MODE=header", "SLUICE_IDENTITY_TRUSTED_PROXIES=127.0.0.0/8")
	both := []*instance{serveEmbedded(t, environ...), serveEmbedded(t, environ...)}
	line := lineAPI + "default"
	if status, answer := call(t, http.MethodPatch, both[0].admin+line, nil, `{"paused":true}`); status != http.StatusOK {
		t.Fatalf("pause: %d %v", status, answer)
	}
	for _, name := range []string{"ann", "bob:1 {x}", "ärla \"quoted\""} {
		const times = 50
		header := map[string]string{"X-User-Id": name}
		type outcome struct {
			status int
			answer map[string]any
		}
		outcomes, together := make(chan outcome, times), make(chan struct{})
		for n := range times {
			go func() {
				<-together
				status, answer, err := try(t.Context(), http.MethodPost, "", both[n%2].public+"/queue/enter", header, "{}")
				if err != nil {
					t.Error(err)
				}
				outcomes <- outcome{status, answer}
			}()
		}
		close(together)
		created, entered := 0, map[any]bool{}
		for range times {
			o := <-outcomes
			if o.status == http.StatusCreated {
				created++
			} else if o.status != http.StatusOK {
				t.Errorf("%d %v", o.status, o.answer)
			}
			entered[o.answer["entered_at"]] = true
		}
		if created != 1 || len(entered) != 1 {
			t.Errorf("%s: %d new places, entered at %v", name, created, entered)
		}
	}
	eventually(t, "three wait", func() bool {
		_, figures := call(t, http.MethodGet, both[1].admin+line, nil, "")
		return figures["waiting"] == 3.0
	})
	if status, answer := call(t, http.MethodPost, both[0].public+"/queue/enter", nil, "{}"); status != http.StatusUnauthorized || answer["code"] != "identity_missing" {
		t.Errorf("without a name: %d %v", status, answer)
	}
}

// The shop's login, by a key from a file, the whole way.
func TestLoginOfTheShop(t *testing.T) {
	t.Parallel()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "login.pem")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	at := serveEmbedded(t, "SLUICE_IDENTITY_MODE=jwt", "SLUICE_IDENTITY_KEY="+path, "SLUICE_IDENTITY_ISSUER=https://shop.test")
	login, err := jwt.NewWithClaims(jwt.SigningMethodEdDSA, jwt.MapClaims{
		"sub": "ann", "iss": "https://shop.test", "exp": time.Now().Add(time.Hour).Unix(),
	}).SignedString(private)
	if err != nil {
		t.Fatal(err)
	}
	header := map[string]string{"Authorization": "Bearer " + login}
	status, answer := call(t, http.MethodPost, at.public+"/queue/enter", header, "{}")
	if status != http.StatusCreated {
		t.Fatalf("enter: %d %v", status, answer)
	}
	header["X-Queue-Ticket"], _ = answer["ticket"].(string)
	var token string
	eventually(t, "admitted", func() bool {
		_, answer := call(t, http.MethodGet, at.public+"/queue/position", header, "")
		token, _ = answer["token"].(string)
		return token != ""
	})
	v := &visitor{t: t, token: token}
	if status, answer := v.order(at, 1); status != http.StatusCreated {
		t.Errorf("order: %d %v", status, answer)
	}
	if log := at.log.String(); strings.Contains(log, login) || strings.Contains(log, token) {
		t.Error("a login or token is in the log")
	}
}

// What is too weak to sign with, or is no key, is a mistake in the configuration: both
// commands say so with exit code 2, and no secret is repeated.
func TestWeakKeysAreMistakes(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	short := "hunter2-" + strings.Repeat("x", queue.MinSecret-9) // one byte too short
	login := func(how string) []string { return []string{"SLUICE_IDENTITY_MODE=jwt", how} }
	for name, c := range map[string]struct {
		environ []string
		says    string
	}{
		"a short secret":             {[]string{"SLUICE_SECRET=" + short}, "\n  secret"},
		"a short second secret":      {[]string{"SLUICE_SECRET=" + strings.Repeat("k", 32) + "," + short}, "value 2 has 31 bytes"},
		"an empty second secret":     {[]string{"SLUICE_SECRET=" + strings.Repeat("k", 32) + ","}, "value 2 has 0 bytes"},
		"no base64":                  {[]string{"SLUICE_SECRET=base64:hunter2!" + strings.Repeat("k", 50)}, "value 1 is not base64"},
		"none with Redis":            {[]string{"SLUICE_REDIS=redis://127.0.0.1:1"}, "secret: must be set when redis is"},
		"an unknown algorithm":       {[]string{"SLUICE_ADMISSION_ALGORITHMS=none"}, "must be one of HS256, EdDSA"},
		"no algorithm":               {[]string{"SLUICE_ADMISSION_ALGORITHMS=,"}, "admission.algorithms: must name at least one"},
		"a missing file":             {login("SLUICE_IDENTITY_KEY=" + folder + "/none"), "\n  identity.key = "},
		"a short login secret":       {login("SLUICE_IDENTITY_KEY=" + write("short", short)), "neither PEM nor a secret of at least 32 bytes"},
		"a damaged key":              {login("SLUICE_IDENTITY_KEY=" + write("damaged", "-----BEGIN PUBLIC KEY-----\nhunter2")), "damaged PEM"},
		"a set without keys":         {login("SLUICE_IDENTITY_JWKS=" + write("set", `{"keys":[]}`)), "\n  identity.jwks = "},
		"neither key nor set":        {login("SLUICE_IDENTITY_ISSUER=x"), "identity.key: must be set"},
		"a header of anybody":        {[]string{"SLUICE_IDENTITY_MODE=header"}, "identity.trusted_proxies: must be set"},
		"a mistake beside another":   {append(login("SLUICE_IDENTITY_KEY="+folder+"/none"), "SLUICE_LOG_LEVEL=loud"), "2 mistakes"},
		"a key with the wrong Redis": {append(login("SLUICE_IDENTITY_KEY="+folder+"/none"), "SLUICE_SECRET="+strings.Repeat("k", 32), "SLUICE_REDIS=redis://h:6379/abc"), "2 mistakes"},
	} {
		for _, command_ := range []string{"check-config", "serve"} {
			code, _, errs := command(t, append(c.environ, "SLUICE_DATA=/dev/null/none"), command_)
			if code != exitUsage || !strings.Contains(errs, c.says) || strings.Contains(errs, "hunter2") {
				t.Errorf("%s: %s: exit %d, stderr:\n%s", name, command_, code, errs)
			}
		}
	}
}
