// Package identity verifies the login tokens of the shop: JWTs that somebody else
// signs, by a key or a set of keys (JWKS) that are configured.
package identity
