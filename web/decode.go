package web

import (
	"bytes"
	"errors"
	"fmt"
	"mime"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/gofiber/fiber/v2"
)

// maxPointer bounds what a detail quotes of the client's own field names, bytes.
const maxPointer = 100

// whitespace is JSON's, which has less of it than Unicode.
const whitespace = " \t\r\n"

// wantJSON refuses a body that does not say it is JSON, or is compressed:
// unpacking it would make 64 KiB of body any number of bytes.
func wantJSON(c *fiber.Ctx) error {
	kind, params, err := mime.ParseMediaType(c.Get(fiber.HeaderContentType))
	charset := params["charset"]
	if err != nil || kind != fiber.MIMEApplicationJSON || charset != "" && !strings.EqualFold(charset, "utf-8") {
		return errMediaType
	}
	if encoding := c.Get(fiber.HeaderContentEncoding); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return explain(errMediaType, "The body must not be compressed.")
	}
	return nil
}

// decode reads the body, one JSON object, into v. Unknown and repeated fields,
// wrong types and anything after the object are refused with a detail that names
// the place, in the client's terms.
func decode(c *fiber.Ctx, v any) error {
	body := c.Request().Body() // not c.Body(), which unpacks
	if trimmed := bytes.TrimLeft(body, whitespace); len(trimmed) == 0 || trimmed[0] != '{' {
		return explain(errInvalidRequest, "The body must be a JSON object.")
	}
	if err := json.Unmarshal(body, v, json.RejectUnknownMembers(true)); err != nil {
		return explain(errInvalidRequest, "%s", mistake(err))
	}
	return nil
}

// decodeNothing accepts an empty body or an empty object.
func decodeNothing(c *fiber.Ctx) error {
	if len(bytes.TrimLeft(c.Request().Body(), whitespace)) == 0 {
		return nil
	}
	return decode(c, &struct{}{})
}

// mistake says what is wrong with a body. The library's own texts name Go types.
func mistake(err error) string {
	syntax, semantic := (*jsontext.SyntacticError)(nil), (*json.SemanticError)(nil)
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName) && errors.As(err, &syntax):
		return fmt.Sprintf("The field %s is there twice.", quote(syntax.JSONPointer))
	case errors.As(err, &syntax):
		return fmt.Sprintf("The body is not well-formed JSON: see byte %d.", syntax.ByteOffset)
	case errors.Is(err, json.ErrUnknownName) && errors.As(err, &semantic):
		return fmt.Sprintf("The field %s is not known.", quote(semantic.JSONPointer))
	case errors.As(err, &semantic):
		return fmt.Sprintf("The field %s must be %s.", quote(semantic.JSONPointer), wanted(semantic.GoType))
	}
	return "The body is not what is expected here."
}

func quote(p jsontext.Pointer) string {
	s := string(p)
	if len(s) > maxPointer {
		s = s[:maxPointer] + "…"
	}
	return fmt.Sprintf("%q", s)
}

// wanted names a type as those who write JSON would.
func wanted(t reflect.Type) string {
	if t == nil {
		return "of another type"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return wanted(t.Elem())
	case reflect.Bool:
		return "true or false"
	case reflect.Int64:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	case reflect.String:
		return "a string"
	case reflect.Slice:
		return "a list"
	}
	return "an object"
}

// change is a field of a partial change: absent, null, or a value.
type change[T any] struct {
	set   bool
	value *T // nil for null
}

// UnmarshalJSONFrom is called for fields that are there, null included.
func (f *change[T]) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	f.set = true
	return json.UnmarshalDecode(d, &f.value)
}

// or is what to change the field to: nil when it is absent, cleared for null.
func (f change[T]) or(cleared T) *T {
	if f.set && f.value == nil {
		return &cleared
	}
	return f.value
}

// orNone is what to change a field to that may have no value: nil when it is
// absent, a pointer to nil for null.
func (f change[T]) orNone() **T {
	if !f.set {
		return nil
	}
	return &f.value
}
