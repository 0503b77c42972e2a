// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/rawbytes"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"
)

// Fill sets each flag of fs that was not given on the command line: from the
// environment, where --drain-grace is PREFIXDRAIN_GRACE, otherwise from the
// YAML file at path, if that is not empty, where it is drain-grace. Flags named
// in not are the command line's alone.
func Fill(fs *pflag.FlagSet, path, prefix string, environ []string, not ...string) error {
	given := make(map[string]bool)
	fs.Visit(func(f *pflag.Flag) { given[f.Name] = true })
	// A list grows with each Set, so that each flag is set once: the strongest
	// source comes first.
	if err := fillEnvironment(fs, prefix, environ, given, not); err != nil || path == "" {
		return err
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("config: %w", err)
	}
	k := koanf.New("\x00") // keys are flat
	if err := k.Load(rawbytes.Provider(content), yaml.Parser()); err != nil {
		return fmt.Errorf("config: %s: %w", path, err)
	}
	return fill(fs, k, path, given, not)
}

func fillEnvironment(fs *pflag.FlagSet, prefix string, environ []string, given map[string]bool, not []string) error {
	k := koanf.New("\x00")
	err := k.Load(env.Provider("\x00", env.Opt{
		Prefix:      prefix,
		EnvironFunc: func() []string { return environ },
		TransformFunc: func(key, value string) (string, any) {
			name := strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(key, prefix)), "_", "-")
			if fs.Lookup(name) == nil || slices.Contains(not, name) {
				return "", nil // variables of other programs may share the prefix
			}
			return name, value
		},
	}), nil)
	if err != nil {
		return fmt.Errorf("environment: %w", err)
	}
	return fill(fs, k, "environment", given, not)
}

// fill sets the flags that k has values for and that were not given before.
func fill(fs *pflag.FlagSet, k *koanf.Koanf, source string, given map[string]bool, not []string) error {
	values := k.All()
	for _, name := range slices.Sorted(maps.Keys(values)) {
		f := fs.Lookup(name)
		if f == nil || slices.Contains(not, name) {
			return fmt.Errorf("%s: %s: no such setting", source, name)
		}
		if given[name] {
			continue
		}
		text, err := text(values[name])
		if err == nil {
			err = f.Value.Set(text)
		}
		if err != nil {
			return fmt.Errorf("%s: %s: %w", source, name, err)
		}
		given[name] = true
	}
	return nil
}

// text renders a value of the file as the command line would have it.
func text(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case bool, int, int64, float64, uint64:
		return fmt.Sprint(v), nil
	case []any:
		parts := make([]string, len(v))
		for i, p := range v {
			s, ok := p.(string)
			if !ok || strings.Contains(s, ",") {
				return "", fmt.Errorf("entry %d is not a plain text", i)
			}
			parts[i] = s
		}
		return strings.Join(parts, ","), nil
	}
	return "", fmt.Errorf("is neither a text, a number, a switch nor a list of texts")
}

// Copy gives to the flags of the command line that from has been given, so
// that Fill can complete them anew. Flags that to does not have are left out.
func Copy(to, from *pflag.FlagSet) (err error) {
	from.Visit(func(f *pflag.Flag) {
		if to.Lookup(f.Name) == nil || err != nil {
			return
		}
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, v := range values { // a list grows with each Set
			if err = to.Set(f.Name, v); err != nil {
				return
			}
		}
	})
	return err
}

// Differences returns the names of the flags of a whose values are others in
// b, in order.
func Differences(a, b *pflag.FlagSet) []string {
	var names []string
	a.VisitAll(func(f *pflag.Flag) {
		if other := b.Lookup(f.Name); other != nil && other.Value.String() != f.Value.String() {
			names = append(names, f.Name)
		}
	})
	return names
}
