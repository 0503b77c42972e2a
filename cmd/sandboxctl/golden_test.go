// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

// Each case is one golden file: what somebody sees who types the line.
func TestGolden(t *testing.T) {
	for name, tt := range map[string]struct {
		line   string
		width  int
		height int
		tty    bool
		env    map[string]string
	}{
		"sandbox_list":             {line: "sandbox list"},
		"sandbox_list_all":         {line: "sandbox list -A"},
		"sandbox_list_selector":    {line: "sandbox list -l team=blue"},
		"sandbox_list_none":        {line: "sandbox list -w empty"},
		"sandbox_list_none_json":   {line: "sandbox list -w empty -o json"},
		"sandbox_list_colour":      {line: "sandbox list", width: 80, tty: true},
		"sandbox_list_narrow":      {line: "sandbox list", width: 30, tty: true, env: map[string]string{"NO_COLOR": "1"}},
		"sandbox_get":              {line: "sandbox get web"},
		"sandbox_get_yaml":         {line: "sandbox get api -o yaml"},
		"sandbox_get_missing":      {line: "sandbox get nobody"},
		"sandbox_create":           {line: "sandbox create shop --expose 8080 --expose docs=8000 -- ./server --verbose"},
		"sandbox_create_external":  {line: "sandbox create shop --driver external --expose 8080 --expose-readiness-path /readyz"},
		"sandbox_create_json":      {line: "sandbox create shop --driver external --expose 8080 -o json"},
		"sandbox_create_taken":     {line: "sandbox create web"},
		"sandbox_stop":             {line: "sandbox stop web"},
		"sandbox_start":            {line: "sandbox start web"},
		"sandbox_delete":           {line: "sandbox delete web"},
		"sandbox_delete_missing":   {line: "sandbox delete nobody --allow-missing"},
		"service_list":             {line: "service list"},
		"service_list_sandbox":     {line: "service list api"},
		"service_list_all":         {line: "service list -A"},
		"service_list_none":        {line: "service list -w blue nobody"},
		"service_list_80":          {line: "service list", width: 80, tty: true, env: map[string]string{"TERM": "dumb"}},
		"service_list_120":         {line: "service list", width: 120, tty: true, env: map[string]string{"NO_COLOR": "1"}},
		"service_list_colour":      {line: "service list", tty: true},
		"service_list_yaml":        {line: "service list api -o yaml"},
		"service_get_ready":        {line: "service get web docs"},
		"service_get_not_ready":    {line: "service get api admin"},
		"service_get_unresponsive": {line: "service get api"},
		"service_get_stopped":      {line: "service get old"},
		"service_get_absent":       {line: "service get new"},
		"service_get_json":         {line: "service get api admin -o json"},
		"service_expose":           {line: "service expose web 9000 extra --readiness-path /up"},
		"service_expose_update":    {line: "service expose web 8001 docs"},
		"service_watch":            {line: "service watch", width: 100, tty: true, env: map[string]string{"NO_COLOR": "1"}},
		"service_watch_all":        {line: "service watch -A", width: 60, tty: true},
		"service_watch_high":       {line: "service watch", width: 100, height: 8, tty: true, env: map[string]string{"NO_COLOR": "1"}},
		"service_watch_narrow":     {line: "service watch api", width: 28, tty: true, env: map[string]string{"NO_COLOR": "1"}},
		"service_watch_pipe":       {line: "service watch web docs"},
		"service_watch_yaml":       {line: "service watch api admin -o yaml", width: 80, tty: true},
		"service_watch_none":       {line: "service watch -w empty", width: 80, tty: true},
		"service_watch_missing":    {line: "service watch web nothing"},
		"service_wait":             {line: "service wait web docs --timeout 1s"},
		"service_wait_responsive":  {line: "service wait web"},
		"service_wait_json":        {line: "service wait api admin --for unhealthy -o json"},
		"service_wait_missing":     {line: "service wait web nothing"},
		"service_history":          {line: "service history web docs"},
		"service_history_colour":   {line: "service history web docs", width: 50, tty: true},
		"service_history_none":     {line: "service history web"},
		"service_history_json":     {line: "service history web -o json"},
		"service_delete":           {line: "service delete web docs"},
		"service_delete_unnamed":   {line: "service delete web"},
		"service_delete_missing":   {line: "service delete web nothing --allow-missing"},
		"gateway_status":           {line: "gateway status"},
		"gateway_status_json":      {line: "gateway status -o json"},
		"version":                  {line: "version"},
		"version_json":             {line: "version -o json"},
		"help":                     {line: "--help"},
		"help_sandbox_create":      {line: "sandbox create --help"},
		"help_service_expose":      {line: "service expose --help"},
		"help_service_wait":        {line: "service wait --help"},
		"help_service_watch":       {line: "service watch --help"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.fill()
			f.width, f.height, f.tty = tt.width, tt.height, tt.tty
			for k, v := range tt.env {
				f.env[k] = v
			}
			args := strings.Fields(tt.line)
			got := f.golden(args, f.run(t, args...))
			file := filepath.Join("testdata", name+".golden")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("differs from %s (write it again with -update):\ngot:\n%s\nwant:\n%s", file, got, want)
			}
		})
	}
}

// No golden file is left over from a case that is gone.
func TestGoldenFilesAreUsed(t *testing.T) {
	source, err := os.ReadFile("golden_test.go")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("testdata/*.golden")
	if err != nil || len(files) == 0 {
		t.Fatalf("golden files: %d, %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".golden")
		if !strings.Contains(string(source), `"`+name+`":`) {
			t.Errorf("%s belongs to no case", file)
		}
	}
}
