package configs

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Operator is somebody who may use the operator's listener.
type Operator struct {
	Name  string
	Token Secret
}

// reservedName is by what the journal knows changes for which no token was asked.
const reservedName = "local"

// unnamedOperator is whoever has a token without a name.
const unnamedOperator = "operator"

// minToken is as long as 128 random bits: whoever reaches the operator's
// listener may try as many tokens as they like.
const minToken = 16 // bytes

// maxOperatorName keeps a line of the journal short.
const maxOperatorName = 32 // characters

// namedToken is NAME=TOKEN. A token alone may end in = and nothing else has to be behind
// it: base64 is padded so.
var namedToken = regexp.MustCompile(`^([A-Za-z0-9][A-Za-z0-9._-]*)=(.*[^=].*)$`)

// ParseOperators splits a configured admin.token at its commas: each part is a token, or
// NAME=TOKEN. The error says which part is wrong and never what the token is.
func ParseOperators(s Secret) ([]Operator, error) {
	if s == "" {
		return nil, nil
	}
	var all []Operator
	var errs []error
	names, tokens := map[string]int{}, map[Secret]int{} // to the first part that has it
	parts := strings.Split(string(s), ",")
	for i, part := range parts {
		o := Operator{unnamedOperator, Secret(strings.TrimSpace(part))}
		wrong := func(format string, args ...any) {
			err := fmt.Errorf(format, args...)
			if len(parts) > 1 {
				err = fmt.Errorf("in part %d: %w", i+1, err)
			}
			errs = append(errs, err)
		}
		if m := namedToken.FindStringSubmatch(string(o.Token)); m != nil {
			o = Operator{m[1], Secret(m[2])}
			// Taken for a token with its name, it would refuse whoever sends the token.
			if len(o.Name) > maxOperatorName {
				wrong("a name has at most %d characters, and this one has %d", maxOperatorName, len(o.Name))
			}
		}
		if err := headerToken(string(o.Token)); err != nil {
			wrong("%w", err)
		} else if len(o.Token) < minToken {
			wrong("has %d bytes, and must have at least %d (make one with: openssl rand -hex 16)", len(o.Token), minToken)
		}
		if o.Name == reservedName {
			wrong("the name %s is that of changes for which no token is asked", reservedName)
		}
		if first, there := names[o.Name]; there {
			wrong("the name %s is that of part %d; a token without one is %s's", o.Name, first, unnamedOperator)
		} else {
			names[o.Name] = i + 1
		}
		if first, there := tokens[o.Token]; there {
			wrong("the token is that of part %d", first)
		} else {
			tokens[o.Token] = i + 1
		}
		all = append(all, o)
	}
	return all, errors.Join(errs...)
}

func operatorToken(s string) error {
	_, err := ParseOperators(Secret(s))
	if err == nil {
		return nil
	}
	return errors.New(strings.ReplaceAll(err.Error(), "\n", "; "))
}
