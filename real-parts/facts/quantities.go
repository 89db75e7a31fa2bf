package main

import (
	"bufio"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// quantities are texts that try the corners of the notation.
var quantities = []string{
	"0", "1", "+1", "-1", "01", "00", ".", "+", "1.", ".5", "0.5", "1.5", "1.50", "1.500", "0.001", "0.0001",
	"0.000000001", "0.0000000001", "1n", "100n", "0.1n", "1u", "1000u", "1m", "1000m", "1500m", "0m", "1k", "1000k",
	"1M", "1G", "1T", "1P", "1E", "10E", "1000E", "100000E", "1Ki", "1024Ki", "1024Mi", "512Ki", "1.5Gi", "0.5Ki",
	"0.1Ki", "1.1Ki", "0Ki", "1023", "8Ei", "7Ei", "9Ei", "16Ei", "-1Ki", "-1.5Gi", "-0.5", "1e3", "1E3", "12e6",
	"1e0", "1e-1", "1e-10", "1e-9", "1.5e3", "1e21", "1e100", "123456789012345678", "1234567890123456789",
	"9223372036854775807", "9223372036854775808", "12345678901234567890123456789", "1000000000000000000000",
	"0.123456789123", "100000000000000000.5", "1e2000000000", "1e99999999999", "1e", "1e+", "1e+3", "1E", "1Kk",
	"1KiB", "abc", "Ki", "", "1 ", "1.2.3", "--1", "1-", "1x", "1i", "1024", "2048Mi", "3072Mi", "100Mi", "128974848",
	"129e6", "129M", "123Mi", "1000000", "1000", "999", "12000m", "0.1", "0.10", "250m", "2.5", "1.0", "1.000",
	"10.000", "5e-3", "1Ti", "1Pi", "4095Pi", "100000Ti", "-9Ei", "1e-3", "1e-4", "0e5", "0.0", "-0", "0x10", "1e1.5",
}

// printQuantities writes a line for each text: what the real type makes of it.
func printQuantities(out *bufio.Writer) error {
	for _, text := range quantities {
		quantity, err := resource.ParseQuantity(text)
		result := "! "
		if err != nil {
			result += err.Error()
		} else {
			result = quantity.String()
		}
		if _, err := out.WriteString(strings.Join([]string{text, result}, "\t") + "\n"); err != nil {
			return err
		}
	}
	return nil
}
