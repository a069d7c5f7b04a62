package pages

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
)

// kinds are the media types of what is served, by the ending of the file's name.
var kinds = map[string]string{
	".html":  "text/html; charset=utf-8",
	".css":   "text/css; charset=utf-8",
	".js":    "text/javascript; charset=utf-8",
	".json":  "application/json",
	".svg":   "image/svg+xml",
	".png":   "image/png",
	".jpg":   "image/jpeg",
	".jpeg":  "image/jpeg",
	".webp":  "image/webp",
	".woff2": "font/woff2",
}

// File is something to send, the same for everybody.
type File struct {
	Body []byte
	ETag string // of Body
	Type string // its media type
	// Gzip is Body compressed, nil where that saves nothing. It has a tag of its own,
	// since who has the one does not have the bytes of the other.
	Gzip     []byte
	GzipETag string
}

func newFile(body []byte, kind string) File {
	sum := sha256.Sum256(body)
	tag := base64.RawURLEncoding.EncodeToString(sum[:9])
	f := File{Body: body, Type: kind, ETag: `"` + tag + `"`}
	var packed bytes.Buffer
	w, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression) // a known level
	_, _ = w.Write(body)                                       // into memory
	_ = w.Close()
	if packed.Len() < len(body) {
		f.Gzip, f.GzipETag = packed.Bytes(), `"`+tag+`-gz"`
	}
	return f
}
