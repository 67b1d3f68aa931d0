# SPDX-License-Identifier: Apache-2.0
"""The pages: one module for each subject, one function for each address."""
