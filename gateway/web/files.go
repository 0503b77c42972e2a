// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"embed"
	"net/http"
	"path"
)

//go:embed static
var static embed.FS

var kinds = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// file serves one of the page's files; all of them lie flat below /page/.
func file(w http.ResponseWriter, r *http.Request, name string) {
	if name == "/" {
		name = prefix + "index.html"
	}
	content, err := static.ReadFile("static/" + path.Base(name))
	if err != nil || path.Dir(name)+"/" != prefix {
		http.Error(w, "there is no such file", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", kinds[path.Ext(name)])
	if r.Method == http.MethodGet {
		_, _ = w.Write(content)
	}
}
