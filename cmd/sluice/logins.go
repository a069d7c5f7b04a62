package main

import (
	"log/slog"
	"strconv"

	"sluice/configs"
	"sluice/identity"
)

// newLogins makes what verifies the shop's login tokens; nil where nothing does.
func newLogins(cfg configs.Config, log *slog.Logger) (*identity.Logins, error) {
	if cfg.Identity.Mode != configs.IdentityJWT || cfg.Role == configs.RoleOrders {
		return nil, nil
	}
	return identity.New(identity.Options{
		Key: cfg.Identity.Key, JWKS: cfg.Identity.JWKS, Issuer: cfg.Identity.Issuer, Audience: cfg.Identity.Audience, Log: log,
	})
}

// loginMistake is a file of keys that cannot be used. The rules of the configuration
// see to it that there is one.
func loginMistake(cfg configs.Config, already configs.Mistakes) configs.Mistakes {
	for _, m := range already {
		switch m.Key {
		case "identity", "identity.mode", "identity.key", "identity.jwks", "role":
			return nil
		}
	}
	if _, err := newLogins(cfg, nil); err != nil {
		key, value := "identity.key", cfg.Identity.Key
		if value == "" {
			key, value = "identity.jwks", cfg.Identity.JWKS
		}
		return configs.Mistakes{{Key: key, Value: strconv.Quote(value), Rule: err.Error()}}
	}
	return nil
}
